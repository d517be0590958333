"use strict";
// Finds and unfolds; the page can be read without it. Text is only ever read here, never written as markup.
const nodes = Array.from(document.querySelectorAll("details, .leaf"));
const field = document.getElementById("find");
const found = document.getElementById("found");
const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
const above = new Map(nodes.map((node) => [node, node.parentElement.closest("details")]));
let texts = null;
let waiting = 0;

function own(node) {
  return fold((node.tagName === "DETAILS" ? node.firstElementChild : node).textContent);
}

function find() {
  const words = fold(field.value).split(/\s+/).filter(Boolean);
  if (texts === null) texts = new Map(nodes.map((node) => [node, own(node)]));
  const kept = new Set();
  const unfolded = new Set();
  const whole = new Set();
  let hits = 0;
  for (const node of nodes) {
    const found = words.every((word) => texts.get(node).includes(word));
    // What is below a node that was found can be looked at; nodes stand behind the one they are in.
    if (found || whole.has(above.get(node))) {
      kept.add(node);
      whole.add(node);
    }
    if (!found) continue;
    hits += 1;
    for (let up = above.get(node); up && !unfolded.has(up); up = above.get(up)) {
      kept.add(up);
      unfolded.add(up);
    }
  }
  for (const node of nodes) {
    node.hidden = words.length > 0 && !kept.has(node);
    if (node.tagName === "DETAILS") node.open = words.length > 0 && unfolded.has(node);
  }
  found.textContent = words.length > 0 ? hits + (hits === 1 ? " match" : " matches") : "";
}

field.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(find, 150);
});
document.getElementById("close").addEventListener("click", () => {
  field.value = "";
  find();
});
document.getElementById("tools").hidden = false;
