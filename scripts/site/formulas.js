// Renders the page's formulas by KaTeX, which is loaded on pages that have any.
(() => {
  const folder = new URL("katex/", document.currentScript.src).href;
  const begin = () => {
    const places = document.querySelectorAll(".arithmatex");
    if (places.length === 0) return;
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = folder + "katex.css";
    const script = document.createElement("script");
    script.src = folder + "katex.js";
    script.onload = () => {
      for (const place of places) {
        const text = place.textContent.trim(); // \( ... \) in a line, \[ ... \] by itself
        katex.render(text.slice(2, -2), place, { displayMode: text.startsWith("\\["), throwOnError: false });
      }
    };
    document.head.append(style, script);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
