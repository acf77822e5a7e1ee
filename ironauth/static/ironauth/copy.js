/* A button beside each value that is marked to be copied; without scripts there is none, and the value can be selected. */
"use strict";
for (const value of document.querySelectorAll("[data-copied]")) {
    const button = document.createElement("button");
    const status = document.createElement("span");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy ${value.dataset.copied}`);
    status.setAttribute("role", "status");
    button.addEventListener("click", async () => {
        try {
            await navigator.clipboard.writeText(value.textContent);
            status.textContent = " Copied.";
        } catch {
            status.textContent = " The browser did not allow it: select the text and copy it.";
        }
    });
    value.after(" ", button, status);
}
