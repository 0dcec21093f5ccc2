// What a page does once it is there: theme switch, local times, copying, live updates, upload, the interactive timeline.
// Every number is in the page already; nothing here is needed to read it.
import { startCopying } from "./copy.js";
import { startLive } from "./live.js";
import { startTheme } from "./switch.js";
import { showTimes } from "./times.js";
import { drawTimeline } from "./timeline.js";
import { startUpload } from "./upload.js";

function dress(part) {
  showTimes(part);
  startCopying(part);
  drawTimeline(part);
}

startTheme();
startUpload();
startLive(dress);
dress(document);
