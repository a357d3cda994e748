import type { JSX } from 'preact';

export function Palette(): JSX.Element | null {
  return null;
}
