import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';

/** Widths at which no page may overflow, in CSS pixels. */
const checkedWidths = [375, 768, 1280, 1920] as const;

/** The parts of the DOM that the checks use. Tests are compiled without its types. */
interface Dom {
  readonly innerWidth: number;
  readonly document: {
    readonly documentElement: { readonly scrollWidth: number };
    querySelectorAll(selector: string): Iterable<DomElement>;
  };
}

interface DomElement {
  readonly tagName: string;
  readonly id: string;
  readonly className: unknown;
  getBoundingClientRect(): { readonly right: number; readonly width: number };
}

/** Fails if the page scrolls sideways at one of the widths. */
export async function expectNoOverflow(
  page: Page,
  widths: readonly number[] = checkedWidths,
): Promise<void> {
  expect(await findOverflow(page, widths), `sideways overflow of ${page.url()}`).toEqual([]);
}

/** Returns the widths at which the page scrolls sideways, with the elements. Restores the size of the viewport. */
export async function findOverflow(
  page: Page,
  widths: readonly number[],
): Promise<readonly string[]> {
  const size = page.viewportSize();
  const overflows: string[] = [];
  for (const width of widths) {
    await page.setViewportSize({ width, height: 900 });
    await nextFrame(page);
    const found = await page.evaluate(() => {
      const { innerWidth, document } = globalThis as unknown as Dom;
      const { scrollWidth } = document.documentElement;
      if (scrollWidth <= innerWidth) return undefined;
      const wide = [...document.querySelectorAll('body *')].filter((element) => {
        const { right, width: own } = element.getBoundingClientRect();
        return own > 0 && right > innerWidth + 0.5;
      });
      const name = ({ tagName, id, className }: DomElement) =>
        `${tagName.toLowerCase()}${id === '' ? '' : `#${id}`}.${String(className)}`;
      return { scrollWidth, elements: wide.slice(0, 8).map(name) };
    });
    if (found !== undefined) {
      overflows.push(`${width} px: ${found.scrollWidth} px wide: ${found.elements.join(', ')}`);
    }
  }
  if (size !== null) await page.setViewportSize(size);
  return overflows;
}

/** Resolves once the page has rendered twice, so that layout follows a change. */
async function nextFrame(page: Page): Promise<void> {
  await page.evaluate(
    () =>
      new Promise<void>((resolve) => {
        const { requestAnimationFrame } = globalThis as unknown as {
          readonly requestAnimationFrame: (callback: () => void) => void;
        };
        requestAnimationFrame(() => requestAnimationFrame(() => resolve()));
      }),
  );
}

/** A violation that axe-core found, with the elements. */
interface AxeViolation {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly string[];
}

interface AxeWindow {
  readonly axe: {
    run(options: object): Promise<{
      readonly violations: readonly {
        readonly id: string;
        readonly help: string;
        readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
      }[];
    }>;
  };
}

/**
 * Runs axe-core with the rules of WCAG 2.2 AA (bound A11). The source is evaluated through the protocol of the browser,
 * to which the content security policy does not apply.
 */
export async function axeViolations(page: Page): Promise<readonly AxeViolation[]> {
  const session = await page.context().newCDPSession(page);
  try {
    await session.send('Runtime.evaluate', {
      expression: axe.source,
      allowUnsafeEvalBlockedByCSP: true,
    });
  } finally {
    await session.detach();
  }
  return await page.evaluate(async () => {
    const page = globalThis as unknown as AxeWindow;
    const values = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
    const { violations } = await page.axe.run({
      runOnly: { type: 'tag', values },
      resultTypes: ['violations'],
    });
    return violations.map(({ id, help, nodes }) => ({
      id,
      help,
      nodes: nodes.map(({ html, failureSummary }) => `${html} ${failureSummary ?? ''}`),
    }));
  });
}

/** Fails if axe-core finds a violation on the page. */
export async function expectAccessible(page: Page): Promise<void> {
  expect(await axeViolations(page), `axe-core on ${page.url()}`).toEqual([]);
}
