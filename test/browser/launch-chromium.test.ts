import { spawn } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { launchChromium } from './launch-chromium.ts';

const program = join(import.meta.dirname, 'version-program.ts');

/** Launches Chromium in another process and returns the output: its version and the width of a text. */
async function launchElsewhere(env: NodeJS.ProcessEnv): Promise<string> {
  const child = spawn(process.execPath, [program], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  return await text(child.stdout);
}

test('launchChromium() renders text with the fonts of the package', async () => {
  const browser = await launchChromium();
  onTestFinished(() => browser.close());
  const page = await browser.newPage();
  await page.setContent('<span>Perdure</span>');
  const box = await page.locator('span').boundingBox();
  expect(browser.version()).toMatch(/^\d+\./);
  expect(box?.width).toBeGreaterThan(20);
});

test.skipIf((process.env['PERDURE_CHROMIUM'] ?? '') !== '')(
  'processes that launch Chromium at the same time leave one complete copy (PERDURE_CHROMIUM unset)',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'perdure-launch-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const env = { ...process.env, TMPDIR: folder };
    const outputs = await Promise.all([launchElsewhere(env), launchElsewhere(env)]);
    expect(outputs[0]).toMatch(/^\d+\./);
    expect(outputs[1]).toBe(outputs[0]);
    const copies = (await readdir(folder)).filter((name) => name.startsWith('perdure-chromium-'));
    expect(copies).toEqual([expect.stringMatching(/^perdure-chromium-[\d.]+-\d+$/)]);
  },
);
