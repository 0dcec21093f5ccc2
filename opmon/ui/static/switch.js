// The theme button: system, light, dark, and round again. The choice stays in this browser.
const ORDER = ["system", "light", "dark"];

function current() {
  return document.documentElement.dataset.theme ?? "system";
}

function choose(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("opmon-theme", theme);
  } catch {
    // Without storage the choice holds for this page.
  }
  document.dispatchEvent(new CustomEvent("opmon-theme"));
}

export function startTheme() {
  const button = document.getElementById("theme");
  const tell = () => {
    button.textContent = `Theme: ${current()}`;
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    choose(ORDER[(ORDER.indexOf(current()) + 1) % ORDER.length]);
    tell();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    document.dispatchEvent(new CustomEvent("opmon-theme")),
  );
  tell();
}
