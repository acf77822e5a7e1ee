/* A list that a narrow screen cuts off is shown as stacked rows, each value with the heading of its column. */
"use strict";
{
    const lists = document.querySelectorAll("#changelist .results, .trail .scrolled");
    const narrow = matchMedia("(max-width: 1024px)"); // where Django's layout leaves that of a desktop
    const fit = () => {
        for (const list of lists) {
            list.classList.remove("as-rows");
            list.classList.toggle("as-rows", narrow.matches && list.scrollWidth > list.clientWidth);
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
}
