import type { JSX } from 'preact';
import { TopBar } from '../../shell/top-bar.tsx';

export function Sessions(): JSX.Element {
  return <TopBar title="Sessions and jobs" />;
}
