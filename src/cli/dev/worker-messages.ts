import type { StoreChoice } from '../running/store-report.ts';

/** What `perdure dev` sends to its worker process. The store is not an argument, because its URL may be secret. */
export type ToWorker =
  | {
      readonly kind: 'start';
      readonly file: string;
      readonly name: string;
      readonly choice: StoreChoice;
    }
  | { readonly kind: 'stop' };

/** What the worker process reports. */
export type FromWorker =
  /** A source file was loaded; a change of it restarts the worker. */
  | { readonly kind: 'loaded'; readonly path: string }
  | { readonly kind: 'ready'; readonly summary: string }
  /** The module cannot be loaded, or the worker cannot start. The process exits. */
  | { readonly kind: 'failed'; readonly text: string };
