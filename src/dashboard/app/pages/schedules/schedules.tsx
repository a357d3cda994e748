import type { JSX } from 'preact';
import { TopBar } from '../../shell/top-bar.tsx';

export function Schedules(): JSX.Element {
  return <TopBar title="Schedules" />;
}
