// How good the password looks, while it is typed. The server judges it; without JavaScript it says what it found.
import "./show_password.js";

const input = document.querySelector("[autocomplete=new-password]");
const meter = document.getElementById("strength");
const text = document.getElementById("strength-text");
const levels = text.dataset.levels.split("|");

function level(password) {
  const characters = [...password];
  if (characters.length < input.minLength) return 0;
  const different = new Set(characters.map((one) => one.toLowerCase())).size;
  if (different < 6) return 1;
  const words = password.split(/[^\p{L}\p{N}]+/u).filter((word) => word.length > 2);
  const kinds = new Set(words.map((word) => word.toLowerCase())).size;
  return Math.min(4, 1 + (different > 8) + (kinds > 2 || characters.length > 20) + (kinds > 3 || characters.length > 25));
}

input.addEventListener("input", () => {
  meter.hidden = !input.value;
  const found = level(input.value);
  meter.value = found;
  const said = input.value ? levels[found] : "";
  if (text.textContent !== said) text.textContent = said;
});
