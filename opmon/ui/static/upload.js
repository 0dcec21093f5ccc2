// A benchmark file by drop or by choice; the answer, good or bad, stands beside the form.
async function send(form, file, told) {
  told.textContent = `Reading ${file.name} ...`;
  const body = new FormData();
  body.append("file", file);
  try {
    const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } });
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.detail);
    const address = new URL(location.href);
    for (const name of ["reference", "candidate", "content"]) address.searchParams.delete(name);
    address.searchParams.set("sweep", said.name);
    location.assign(address);
  } catch (error) {
    told.textContent = error.message || "It could not be sent.";
  }
}

export function startUpload() {
  const form = document.querySelector("form.upload");
  if (!form) return;
  const [drop, told] = [form.querySelector(".drop"), form.querySelector(".upload-answer")];
  const input = form.querySelector("input[type=file]");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (input.files[0]) send(form, input.files[0], told);
  });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files[0]) send(form, event.dataTransfer.files[0], told);
    });
  }
}
