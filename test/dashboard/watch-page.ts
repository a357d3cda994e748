import type { BrowserContext, ConsoleMessage, Request, Response } from 'playwright-core';

/** Collects the faults of all pages of a browser context (bound A13). A test fails at its end if there is one. */
export interface PageWatch {
  /** What went wrong since the last call: console errors, uncaught errors, CSP reports, foreign requests, status 5xx. */
  readonly take: () => readonly string[];
  /** Ignores faults whose text matches. For tests of failures. */
  readonly allow: (pattern: RegExp) => void;
}

interface WatchOptions {
  /** The origin of the dashboard. */
  readonly origin: string;
  /** Reports a press of the mouse. */
  readonly keyboardOnly: boolean;
}

/** Watches a context. Call it before its first page. */
export async function watchContext(
  context: BrowserContext,
  { origin, keyboardOnly }: WatchOptions,
): Promise<PageWatch> {
  const faults: string[] = [];
  const allowed: RegExp[] = [];
  const report = (fault: string): void => void faults.push(fault);
  await context.exposeBinding('reportFault', (_source, fault: string) => report(fault));
  await context.addInitScript(() => {
    const page = globalThis as unknown as Page;
    page.addEventListener(
      'securitypolicyviolation',
      ({ violatedDirective, blockedURI, sample }) => {
        page.reportFault(`CSP: ${violatedDirective} blocked ${blockedURI} ${sample}`);
      },
    );
  });
  if (keyboardOnly) {
    await context.addInitScript(() => {
      const page = globalThis as unknown as Page;
      page.addEventListener('pointerdown', () => page.reportFault('the mouse was used'));
    });
  }
  context.on('console', (message: ConsoleMessage) => {
    if (message.type() === 'error')
      report(`console: ${message.text()} (${message.location().url})`);
  });
  context.on('weberror', (error) => report(`uncaught: ${String(error.error().stack)}`));
  context.on('request', (request: Request) => {
    const { protocol, origin: requested } = new URL(request.url());
    const isLocal = protocol === 'data:' || protocol === 'blob:' || requested === origin;
    if (!isLocal) report(`foreign request: ${request.url()}`);
  });
  context.on('response', (response: Response) => {
    if (response.status() >= 500) report(`status ${response.status()}: ${response.url()}`);
  });
  return {
    take: () => faults.splice(0).filter((fault) => !allowed.some((pattern) => pattern.test(fault))),
    allow: (pattern) => void allowed.push(pattern),
  };
}

/** The global scope of a page. Tests are compiled without the types of the DOM. */
interface Page {
  reportFault(fault: string): void;
  addEventListener(name: 'pointerdown', listener: () => void): void;
  addEventListener(
    name: 'securitypolicyviolation',
    listener: (event: {
      readonly violatedDirective: string;
      readonly blockedURI: string;
      readonly sample: string;
    }) => void,
  ): void;
}
