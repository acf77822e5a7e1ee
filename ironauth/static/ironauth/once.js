// A second press of a button before the answer is there sends nothing: the browser would throw away the answer to the
// first one, and what works once is used up then. After a second the button works again, e.g. where a file was saved.
const MOMENT_MS = 1_000;
const sent = new WeakMap();

document.addEventListener("submit", (event) => {
  const before = sent.get(event.target);
  if (before !== undefined && event.timeStamp - before < MOMENT_MS) {
    event.preventDefault();
    event.stopImmediatePropagation();
  } else sent.set(event.target, event.timeStamp);
}, { capture: true });
