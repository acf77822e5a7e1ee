/* A list that a screen cuts off gets the room of its filters, which go behind a switch above it; one that is cut off
   even so is shown as stacked rows, each value with the heading of its column. */
"use strict";
{
    const lists = document.querySelectorAll("#changelist .results, .trail .scrolled");
    const isCutOff = (list) => list.scrollWidth > list.clientWidth;
    const fit = () => {
        for (const list of lists) {
            const around = list.closest("#changelist");
            list.classList.remove("as-rows");
            around?.classList.remove("filters-apart");
            around?.classList.toggle("filters-apart", isCutOff(list));
            list.classList.toggle("as-rows", isCutOff(list));
        }
    };
    for (const list of lists) {
        const heads = [...list.querySelectorAll("thead th")].map((one) => one.querySelector(".text") || one);
        const headings = heads.map((one) => one.textContent.trim());
        for (const row of list.querySelectorAll("tbody tr")) {
            [...row.cells].forEach((cell, at) => { cell.dataset.heading = headings[at] || ""; });
        }
    }
    fit();
    addEventListener("resize", fit);
    const main = document.getElementById("main"); // the sidebar beside it is opened and closed by its class
    if (main) new MutationObserver(fit).observe(main, { attributes: true, attributeFilter: ["class"] });
}
