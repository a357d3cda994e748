import type { JSX } from 'preact';

export function BulkDock(): JSX.Element | null {
  return null;
}
