import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect } from 'vitest';
import { Perdure, type StartWorkerOptions } from '../../src/perdure.ts';
import type { Role } from '../../src/server.ts';
import { launchChromium } from '../browser/launch-chromium.ts';
import { engineStores, type EngineStore, type StoreKind } from '../engine/engine-store.ts';
import { makeTokens, startDashboard, type DashboardServerOptions } from './dashboard-server.ts';
import { Keyboard } from './keyboard.ts';
import { seedStore, type Seed } from './seed/seed-store.ts';
import { watchContext, type PageWatch } from './watch-page.ts';

/** Settings of one dashboard. */
interface OpenOptions extends DashboardServerOptions {
  /** Starts a worker with these definitions. */
  readonly worker?: StartWorkerOptions;
  /** The first page, relative to the base path. Default: the overview. `null`: no page is loaded. */
  readonly path?: string | null;
  /** Theme, size of the viewport and the like. Default: light, 1440 × 900. */
  readonly context?: BrowserContextOptions;
  /** Reports a press of the mouse as a fault: the test uses the keyboard alone. */
  readonly keyboardOnly?: boolean;
}

/** A dashboard in a browser. Everything is closed after the test, which fails if a page had a fault. */
interface OpenDashboard {
  readonly perdure: Perdure;
  readonly store: EngineStore;
  /** The address of the dashboard, with a slash at its end. */
  readonly url: string;
  readonly tokens: Readonly<Record<Role, string>>;
  readonly context: BrowserContext;
  readonly page: Page;
  readonly keyboard: Keyboard;
  readonly watch: PageWatch;
  /** Revokes the token of a role. The server notices it within `serve.authMaxAge`. */
  readonly revoke: (role: Role) => void;
  /** Restarts the server on the same port. */
  readonly restart: () => Promise<void>;
  /** Stops the server. */
  readonly stop: () => Promise<void>;
  /** Opens another tab. */
  readonly newPage: (path?: string) => Promise<Page>;
}

/** Opens a dashboard on a store of its own, or on the seeded store of its suite. */
type Open = (options?: OpenOptions) => Promise<OpenDashboard>;

/** The parts that the tests of a suite share. */
export interface Suite {
  readonly open: Open;
  /** The seeded store, inside tests of a suite with `seed: true`. */
  readonly seed: () => Seed;
}

/** Options of a suite. */
export interface SuiteOptions {
  /** Seeds one store before the tests, which all of them use. Default: false, an empty store per test. */
  readonly seed?: boolean;
  readonly kinds?: readonly StoreKind[];
}

const seedTimeoutMs = 180_000;

/**
 * Stores for suites whose requests other tests run on both stores. `npm run test:modes` and `npm run test:large` also run them
 * on PostgreSQL.
 */
export const kindsOfPages: readonly StoreKind[] = ['all-modes', 'large'].includes(
  process.env['MODE'] ?? '',
)
  ? ['SQLite', 'PostgreSQL']
  : ['SQLite'];

/** Registers a suite once per store. All its tests share a browser process, and each has its own context. */
export function describeDashboard(
  title: string,
  suite: (parts: Suite) => void,
  { seed: isSeeded = false, kinds = ['SQLite', 'PostgreSQL'] }: SuiteOptions = {},
): void {
  describe.each(kinds)(`${title} (%s)`, (kind) => {
    const newStore = engineStores(kind);
    const cleanups: (() => Promise<unknown>)[] = [];
    const watches: PageWatch[] = [];
    let browser: Browser | undefined;
    let seeded: { readonly store: EngineStore; readonly seed: Seed } | undefined;

    beforeAll(async () => {
      browser = await launchChromium();
      if (!isSeeded) return;
      const store = await newStore();
      seeded = { store, seed: await seedStore(store.open) };
    }, seedTimeoutMs);
    afterAll(async () => {
      await browser?.close();
      await seeded?.seed.close();
      await seeded?.store.remove();
    });
    afterEach(async () => {
      const faults = watches.splice(0).flatMap((watch) => watch.take());
      for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
      expect(faults, 'faults of the pages').toEqual([]);
    });

    const openStore = async (): Promise<{ store: EngineStore; perdure: Perdure }> => {
      if (seeded !== undefined) return { store: seeded.store, perdure: seeded.seed.perdure };
      const store = await newStore();
      cleanups.push(() => store.remove());
      const perdure = await Perdure.open(await store.open());
      cleanups.push(() => perdure.close());
      return { store, perdure };
    };

    const open: Open = async (options = {}) => {
      if (browser === undefined) throw new Error('Call open() inside a test.');
      const { store, perdure } = await openStore();
      const { worker, path = '', context: contextOptions, keyboardOnly = false } = options;
      if (worker !== undefined) {
        const started = await perdure.startWorker({ shutdownGrace: 200, ...worker });
        cleanups.push(() => started.stop());
      }
      const tokens = makeTokens();
      const clock = seeded?.seed.clock;
      const revoked = new Set<Role>();
      const loadTokens = () => tokens.list.filter(({ role }) => !revoked.has(role));
      const serveAt = (port: number) =>
        startDashboard(perdure, { ...options, port, tokens: loadTokens, clock });
      let server = await serveAt(0);
      cleanups.push(() => server.close());
      const { url } = server;
      const { port, origin } = new URL(url);
      const context = await browser.newContext({
        viewport: { width: 1440, height: 900 },
        colorScheme: 'light',
        locale: 'en-US',
        ...contextOptions,
      });
      context.setDefaultTimeout(15_000);
      cleanups.push(async () => {
        // Requests that a test intercepts can still be under way, and fail when the browser's context closes.
        for (const page of context.pages()) await page.unrouteAll({ behavior: 'ignoreErrors' });
        await context.close();
      });
      const watch = await watchContext(context, { origin, keyboardOnly });
      watches.push(watch);
      const newPage = async (to: string | null = ''): Promise<Page> => {
        const page = await context.newPage();
        if (to !== null) await page.goto(new URL(to, url).href);
        return page;
      };
      const page = await newPage(path);
      return {
        perdure,
        store,
        url,
        tokens: tokens.byRole,
        context,
        page,
        keyboard: new Keyboard(page),
        watch,
        newPage,
        revoke: (role) => void revoked.add(role),
        stop: () => server.close(),
        async restart() {
          await server.close();
          server = await serveAt(Number(port));
        },
      };
    };

    const seed = (): Seed => {
      if (seeded === undefined) throw new Error('The suite has no `seed: true`.');
      return seeded.seed;
    };
    suite({ open, seed });
  });
}
