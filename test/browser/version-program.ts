/** Launches Chromium and prints its version. */
import { launchChromium } from './launch-chromium.ts';

const browser = await launchChromium();
console.log(browser.version());
await browser.close();
