// The keyboard reaches tables that are wider than the page, so that it can scroll them.
document$.subscribe(() => setTimeout(() => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
  }
}));
