// What the words on the page mean. Tooltips and the help dialog show these sentences.

export const TERMS = {
  "path independent": "A net that ends in the same state wherever it starts. More steps then do not hurt, and harder inputs can be solved with more of them.",
  AA: "Asymptotic alignment: the cosine between the limit from the usual start and the limits from other starts, averaged. 1 means the same limit from every start: the net is path independent.",
  "centred AA": "AA after the mean limit of several inputs has been subtracted. It is low for a net whose limits are alike only because they share a large mean.",
  state: "What the net computes on: a list of numbers that each step replaces by new ones. The answer is read from it.",
  start: "The state before the first step.",
  limit: "The state, or the cycle of states, that a solve ends in.",
  residual: "How much one step changes the state, relative to its size. It goes to 0 at a fixed point.",
  step: "One evaluation of the net’s cell.",
  settled: "The residual is so small that further steps change nothing that matters.",
  cycle: "The state returns to an earlier one and then repeats for ever.",
  restarts: "Solves of the same input from other starts: from noise, and from the limits of other inputs.",
  "other input": "A restart from the limit of another input, with which this input has nothing to do. AA compares its limit with the one from the usual start. The paper calls it a swapped start.",
  "adversarial start": "A start that a short search has found, such that the solve ends as far as possible from the usual limit.",
  Picard: "Plain iteration: each state is the cell’s answer to the one before.",
  Anderson: "Accelerated iteration: mixes the last few states so that the residual becomes small.",
  Broyden: "A quasi-Newton method: estimates from the last steps where the residual is 0.",
  "principal plane": "The plane through the states of the first sixteen steps in which they differ most. Trajectories are drawn in it.",
  "random plane": "Two random directions, the same for every input. Trajectories are drawn in the plane that they span.",
  seed: "A number that determines a random input. The same seed gives the same input.",
};

export const PLOTS = {
  residuals: "The residual at each step, on a logarithmic scale. The thick line is the solve that you see; thin lines are its restarts.",
  paths: "The states of all solves, projected onto a plane. A ring marks a start, a filled dot the present state. If all dots meet, the net forgets where it started.",
  strips: "One strip per start, from the first step to the last: teal where the answer is right, red where it is wrong, and between for answers that are right in part.",
};
