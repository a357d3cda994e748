import type { JSX } from 'preact';
import { TopBar } from '../../shell/top-bar.tsx';

export function Flows(): JSX.Element {
  return <TopBar title="Flows" />;
}
