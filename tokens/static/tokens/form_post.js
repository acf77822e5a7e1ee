// The answer to a client that wants it as a form: sent at once; without script there is the button.
document.getElementById("answer").submit();
