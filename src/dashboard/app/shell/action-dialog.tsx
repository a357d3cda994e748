import type { JSX } from 'preact';

export function ActionDialog(): JSX.Element | null {
  return null;
}
