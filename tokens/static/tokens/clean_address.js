// What another provider has sent along is used up: it is not to stay in the address bar, the history, or a picture of the page.
history.replaceState(history.state, "", location.pathname);
