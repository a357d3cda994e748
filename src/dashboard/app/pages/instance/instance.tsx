import type { JSX } from 'preact';
import { TopBar } from '../../shell/top-bar.tsx';

export function Instance(): JSX.Element {
  return <TopBar title="Instance" />;
}
