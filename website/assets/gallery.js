// The filters of the gallery, and the comparison of two schemes. Pages are complete without it, except the comparison.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector("form.filters");
  if (form) filterSchemes(form);
  if (document.getElementById("scheme-data")) compareSchemes();
});

function filterSchemes(form) {
  form.hidden = false;
  form.addEventListener("change", () => {
    const groups = [...form.querySelectorAll("fieldset")].map((group) =>
      [...group.querySelectorAll("input:checked")].map((box) => [box.name, box.value])).filter((chosen) => chosen.length);
    for (const scheme of document.querySelectorAll("a.scheme"))
      scheme.hidden = !groups.every((chosen) => chosen.some(([name, value]) => scheme.dataset[name].split(" ").includes(value)));
  });
}

function compareSchemes() {
  const data = JSON.parse(document.getElementById("scheme-data").textContent);
  const [first, second, depth] = ["scheme-a", "scheme-b", "depth"].map((id) => document.getElementById(id));
  const named = decodeURIComponent(location.hash.slice(1));
  first.value = named in data ? named : "post-ln";
  second.value = first.value === "pre-ln" ? "post-ln" : "pre-ln";
  const show = () => {
    const a = data[first.value], b = data[second.value];
    for (const [side, chosen] of [["a", first.value], ["b", second.value]]) {
      const link = document.getElementById(`link-${side}`);
      link.textContent = chosen;
      link.href = `${chosen}.html`;
    }
    const common = longestCommon(a.equation.flat(), b.equation.flat());
    document.getElementById("equation-a").innerHTML = marked(a.equation, common.inA);
    document.getElementById("equation-b").innerHTML = marked(b.equation, common.inB);
    for (const figure of document.querySelectorAll(".fingerprint svg")) {
      const line = (of, kind) => `<polyline class="${kind}" points="${of.lines[figure.dataset.quantity][depth.value]}"/>`;
      figure.querySelector("g").innerHTML = line(a, "first") + line(b, "second");
    }
  };
  for (const control of [first, second, depth]) control.addEventListener("change", show);
  show();
}

function marked(lines, isCommon) {
  let at = 0;
  return lines.map((line) => {
    const shown = line.map((token) => (isCommon[at++] || token.startsWith("<mspace") ? token : `<mrow class="changed">${token}</mrow>`));
    return `<div class="equation"><math display="block"><mrow>${shown.join("")}</mrow></math></div>`;
  }).join("");
}

function longestCommon(a, b) {
  const length = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      length[i][j] = a[i] === b[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  const inA = new Array(a.length).fill(false), inB = new Array(b.length).fill(false);
  for (let i = 0, j = 0; i < a.length && j < b.length; )
    if (a[i] === b[j]) inA[i++] = inB[j++] = true;
    else if (length[i + 1][j] >= length[i][j + 1]) i++;
    else j++;
  return { inA, inB };
}
