import type { JSX } from 'preact';
import { TopBar } from '../../shell/top-bar.tsx';

export function Metrics(): JSX.Element {
  return <TopBar title="Metrics" />;
}
