// What the theme of the site gets wrong: wide tables that the keyboard cannot scroll, a landmark for each block of code;
// and tables without headings, which GitHub's Markdown cannot write.
const mend = () => {
  for (const one of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) one.tabIndex = 0;
  for (const one of document.querySelectorAll("nav.md-code__nav:not([role])")) one.setAttribute("role", "presentation");
  for (const one of document.querySelectorAll("thead")) if (!one.textContent.trim()) one.remove();
  for (const one of document.querySelectorAll("th:empty")) one.replaceWith(document.createElement("td"));
};
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
mend();
