// Where solves come from: the server of this page, or recordings exported with it.

import { Recorded } from "./recorded.js";
import { fetched, Socket } from "./transport.js";

export async function connected(onState) {
  const index = window.explorerIndex; // of an exported page
  if (index) return { nets: index.nets, transport: new Recorded(index), frozen: true };
  const nets = await fetched("api/nets");
  return { nets, transport: new Socket(onState), frozen: false };
}
