// The drawings, by the names that the server uses. To add one, write a module and list it here.

import * as bits from "./bits.js";
import * as digit from "./digit.js";
import * as maze from "./maze.js";
import * as numbers from "./numbers.js";

export const VIEWS = { bits, digit, maze, numbers };
