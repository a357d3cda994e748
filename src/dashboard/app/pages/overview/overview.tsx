import type { JSX } from 'preact';
import { TopBar } from '../../shell/top-bar.tsx';

export function Overview(): JSX.Element {
  return <TopBar title="Overview" />;
}
