import type { JSX } from 'preact';
import { TopBar } from '../../shell/top-bar.tsx';

export function Queues(): JSX.Element {
  return <TopBar title="Tasks and queues" />;
}
