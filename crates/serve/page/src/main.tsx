import { render } from "preact";
import "./style.css";
import { startTheme } from "./theme";
import { App } from "./views/App";

startTheme();
const root = document.getElementById("app");
if (root) render(<App />, root);
