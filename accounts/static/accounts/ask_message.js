// Ask for a message with a link. The answer is the same with and without an account.
import { begin, open } from "./account.js";
import { $, on } from "./passkeys.js";

function show(asked) {
  $("ask").hidden = asked;
  $("asked").hidden = !asked;
  $(asked ? "asked-title" : "email").focus();
}

on($("ask-form"), "submit", async () => {
  await open($("ask-form").dataset.ask, { email: $("email").value });
  show(true);
});
on($("again"), "click", () => show(false));

begin();
$("email").focus();
