"use strict";
(() => {
  const find = (selector) => [...document.querySelectorAll(selector)];
  for (const input of find("[data-rename]")) {
    const first = input.value;
    input.addEventListener("input", () => {
      const name = input.value.trim() || first;
      for (const element of find(".name")) {
        if (element.dataset.cluster === input.dataset.rename) element.textContent = name;
      }
    });
    input.addEventListener("change", () => { if (!input.value.trim()) input.value = first; });
  }
  addEventListener("beforeprint", () => { for (const each of find("#rules details")) each.open = true; });
  const cases = find(".case");
  if (!document.getElementById("count")) return;
  const [byClass, byRule, search, disagree, count] =
    ["by-class", "by-rule", "search", "disagree", "count"].map((id) => document.getElementById(id));
  const update = () => {
    const wanted = search.value.trim().toLowerCase();
    let shown = 0;
    for (const one of cases) {
      const stays = (!byClass.value || one.dataset.class === byClass.value)
        && (!byRule.value || one.dataset.rule === byRule.value)
        && (!disagree.checked || one.dataset.agrees === "no")
        && (!wanted || one.textContent.toLowerCase().includes(wanted));
      one.hidden = !stays;
      shown += stays ? 1 : 0;
    }
    count.textContent = `${shown} of ${cases.length} shown`;
  };
  for (const control of [byClass, byRule, search, disagree]) for (const event of ["input", "change"]) control.addEventListener(event, update);
  update();
})();
