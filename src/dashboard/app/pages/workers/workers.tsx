import type { JSX } from 'preact';
import { TopBar } from '../../shell/top-bar.tsx';

export function Workers(): JSX.Element {
  return <TopBar title="Workers" />;
}
