// The connection to the server: one WebSocket for all solves of this page.

const FRAMES = 1;
const HEAD = 16; // bytes before the frames of a binary message
const RETRY = 1000; // milliseconds

export class Socket {
  constructor(onState) {
    this.onState = onState;
    this.streams = new Map();
    this.number = 0;
    this.waiting = [];
    this.connect();
  }

  connect() {
    const address = new URL("api/live", location.href.split("#")[0]);
    address.protocol = address.protocol.replace("http", "ws");
    this.socket = new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => {
      // After a lost connection the page sends all its requests again, so these would be sent twice.
      const waiting = this.waiting.splice(0);
      if (!this.lost) for (const message of waiting) this.socket.send(message);
      this.onState(true);
    };
    this.socket.onmessage = ({ data }) => this.receive(data);
    this.socket.onclose = () => {
      this.lost = true;
      this.onState(false);
      const handlers = [...this.streams.values()];
      this.streams.clear();
      for (const handle of handlers) handle({ event: "refused", status: 0, reason: "The connection to the server was lost." });
      setTimeout(() => this.connect(), RETRY);
    };
  }

  send(message) {
    const text = JSON.stringify(message);
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(text);
    else this.waiting.push(text);
  }

  // Start a solve; `handle` receives its events. Returns a function that cancels it.
  open(request, handle) {
    const id = ++this.number;
    this.streams.set(id, handle);
    this.send({ id, ...request });
    return () => {
      if (this.streams.delete(id)) this.send({ cancel: id });
    };
  }

  receive(data) {
    if (typeof data !== "string") {
      const [kind, id, first, count] = new Uint32Array(data, 0, 4);
      if (kind === FRAMES) this.streams.get(id)?.({ event: "frames", first, count, data: data.slice(HEAD) });
      return;
    }
    const { id, ...event } = JSON.parse(data);
    const handle = this.streams.get(id);
    if (event.event === "done" || event.event === "refused") this.streams.delete(id);
    handle?.(event);
  }
}

export async function fetched(address) {
  const answer = await fetch(address);
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.reason ?? answer.statusText);
  return data;
}
