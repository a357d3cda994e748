import type { page } from './page.ts';

export declare const other: typeof page;
