import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { describeDashboard } from './open-dashboard.ts';
import { axeViolations, expectAccessible, expectNoOverflow, findOverflow } from './page-checks.ts';

const head = '<!doctype html><html lang="en"><head><title>Page</title></head>';

/** Writes a page into a folder of static files. */
function staticPage(body: string, files: Readonly<Record<string, string>> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-page-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const page = `${head}<body>${body}</body></html>`;
  for (const [name, text] of Object.entries({ 'index.html': page, ...files })) {
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

// These show that each check detects a faulty page. They need no store in particular.
describeDashboard(
  'the checks of dashboard tests',
  ({ open }) => {
    test('a page without faults passes all checks', async () => {
      const folder = staticPage('<main><h1>Orders</h1><button>Retry</button></main>');
      const { page, watch, keyboard } = await open({ folder });
      await expectNoOverflow(page);
      await expectAccessible(page);
      expect(await keyboard.tabTo('Retry')).toMatchObject({ tag: 'button', name: 'Retry' });
      await expect(keyboard.tabTo('Cancel', 3)).rejects.toThrow('No element named Cancel');
      expect(watch.take()).toEqual([]);
    });

    test('scripts, console errors and uncaught errors are reported', async () => {
      const script = `console.error('first'); setTimeout(() => { throw new Error('second'); });`;
      const folder = staticPage('<script src="faulty.js"></script>', { 'faulty.js': script });
      const { watch } = await open({ folder });
      const faults: string[] = [];
      await expect.poll(() => faults.push(...watch.take())).toBeGreaterThan(1);
      expect(faults).toContainEqual(expect.stringContaining('console: first'));
      expect(faults).toContainEqual(expect.stringContaining('Error: second'));
    });

    test('violations of the content security policy are reported', async () => {
      const script = `document.body.innerHTML = '<b>text</b>';`;
      const folder = staticPage('<p style="color: red">text</p><script src="sink.js"></script>', {
        'sink.js': script,
      });
      const { watch } = await open({ folder });
      const faults: string[] = [];
      await expect
        .poll(() => faults.push(...watch.take()) && faults.join('\n'))
        .toMatch(/CSP: require-trusted-types-for/);
      expect(faults.join('\n')).toMatch(/CSP: style-src/);
    });

    test('the mouse is reported in a test of the keyboard', async () => {
      const folder = staticPage('<main><h1>Orders</h1><button>Retry</button></main>');
      const { page, watch, keyboard } = await open({ folder, keyboardOnly: true });
      await keyboard.tabTo('Retry');
      await keyboard.press('Enter');
      expect(watch.take()).toEqual([]);
      await page.click('button');
      await expect.poll(() => watch.take()).toEqual(['the mouse was used']);
    });

    test('requests to other origins are reported', async () => {
      const folder = staticPage('<img alt="logo" src="http://127.0.0.1:9/logo.png">');
      const { watch } = await open({ folder });
      const faults: string[] = [];
      await expect
        .poll(() => faults.push(...watch.take()) && faults.join('\n'))
        .toContain('http://127.0.0.1:9/logo.png');
    });

    test('sideways overflow is reported with the element', async () => {
      const folder = staticPage(
        '<table class="wide"></table><link rel="stylesheet" href="x.css">',
        {
          'x.css': '.wide { width: 900px; height: 10px }',
        },
      );
      const { page } = await open({ folder });
      expect(await findOverflow(page, [375, 768])).toEqual([
        expect.stringContaining('375 px: 9'),
        expect.stringContaining('table.wide'),
      ]);
      await expect(expectNoOverflow(page)).rejects.toThrow('sideways overflow');
      await expectNoOverflow(page, [1280, 1920]);
    });

    test('violations of WCAG are reported with the rule', async () => {
      const folder = staticPage('<main><h1>Orders</h1><button></button></main>');
      const { page } = await open({ folder });
      expect((await axeViolations(page)).map(({ id }) => id)).toEqual(['button-name']);
    });
  },
  { kinds: ['SQLite'] },
);
