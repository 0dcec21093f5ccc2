// Sets the chosen theme before the first paint; without a choice the reader's system decides.
// A classic script on purpose: a module would run after the page was shown once in the other theme.
(() => {
  try {
    const kept = localStorage.getItem("opmon-theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    // No storage in this browser: the system's theme stays.
  }
})();
