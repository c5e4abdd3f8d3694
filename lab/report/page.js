// Filters the tests by outcome and by a part of the name. Everything else on the page works without JavaScript.
(() => {
  const filter = document.querySelector(".filter");
  if (!filter) return;
  filter.hidden = false;
  const buttons = [...filter.querySelectorAll("button")];
  const search = filter.querySelector("input");
  const tests = [...document.querySelectorAll("#tests .test")];
  const nothing = document.querySelector(".nothing");
  const show = () => {
    const wanted = buttons.find((b) => b.getAttribute("aria-pressed") === "true").dataset.show;
    const part = search.value.trim().toLowerCase();
    let shown = 0;
    for (const test of tests) {
      const fits = (!wanted || test.dataset.outcome === wanted) && test.dataset.name.includes(part);
      test.hidden = !fits;
      shown += fits;
    }
    nothing.hidden = shown > 0;
  };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      show();
    });
  }
  search.addEventListener("input", show);
})();
