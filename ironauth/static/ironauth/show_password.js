// A button beside every password that shows what is typed, and hides it again. Without JavaScript there is none.
import "./once.js";

const { show } = document.querySelector("[data-show]")?.dataset ?? {};

function add(input) {
  const frame = Object.assign(document.createElement("span"), { className: "secret" });
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: show });
  const set = (shown) => {
    input.type = shown ? "text" : "password";
    button.setAttribute("aria-pressed", shown);
  };
  button.setAttribute("aria-controls", input.id);
  set(false);
  button.addEventListener("click", () => set(input.type === "password"));
  // Hidden before it is sent: browsers offer to keep passwords, and remember what other fields had.
  input.form?.addEventListener("submit", () => set(false), { capture: true });
  input.spellcheck = false;
  input.autocapitalize = "none";
  const focused = document.activeElement === input;
  input.replaceWith(frame);
  frame.append(input, button);
  if (focused) input.focus();
}

if (show) document.querySelectorAll("input[type=password]").forEach(add);
