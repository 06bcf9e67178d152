// The rail at the left, and five tabs at the bottom below 900 px. Counts appear only where something is to be seen.
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useCall } from '../api/use-call.ts'
import { Glyph, Icon, type State } from '../parts/icon.tsx'
import { formatCount } from '../parts/meter.tsx'
import { type NavigationItem, navigation } from './navigation.ts'

export function Rail() {
  const counts = useRailCounts()
  return (
    <nav className="rail" aria-label="Main">
      <div className="brand">
        <svg aria-hidden="true">
          <use href="#logo" />
        </svg>
        Brokkr
      </div>
      {(['daily', 'Understand', 'Operate', 'Govern'] as const).map((group) => (
        <div key={group} className="rail-group">
          {group === 'daily' ? null : <h2>{group}</h2>}
          {navigation
            .filter((item) => item.group === group)
            .map((item) => (
              <RailLink key={item.to} item={item} count={counts[item.to]} />
            ))}
        </div>
      ))}
    </nav>
  )
}

function RailLink({ item, count }: { item: NavigationItem; count: ReactNode }) {
  return (
    <Link
      to={item.to}
      activeOptions={{ exact: item.to === '/' }}
      activeProps={{ className: 'on', 'aria-current': 'page' }}
      title={item.label}
    >
      <Icon name={item.icon} />
      <span className="rail-label">{item.label}</span>
      {count}
    </Link>
  )
}

const shownCount = (count: number, state?: State): ReactNode =>
  count === 0 ? null : (
    <span className={state === undefined ? 'n' : `n st st-${state}`}>
      {state === undefined ? null : <Glyph state={state} />}
      {formatCount(count)}
    </span>
  )

function useRailCounts(): Partial<Record<NavigationItem['to'], ReactNode>> {
  const { data } = useCall('getOverview', {}, { everyMs: 10_000 })
  if (data === undefined) return {}
  const orders = data.work_orders
  return {
    '/': shownCount(data.fleet.total),
    '/stacks': shownCount(data.stacks.total),
    '/drift': shownCount(data.stacks.drifted, 'degraded'),
    '/webhooks': shownCount(data.deliveries.dead_24h, 'failing'),
    '/work-orders': orders === null ? null : shownCount(orders.pending + orders.claimed + orders.retry_pending, 'progressing'),
  }
}

export function BottomTabs() {
  const shown = navigation.filter(({ to }) => ['/', '/stacks', '/promotions', '/work-orders', '/broker'].includes(to))
  const names: Record<string, string> = { '/promotions': 'Decide', '/broker': 'More', '/work-orders': 'Orders' }
  return (
    <nav className="bottom" aria-label="Main, small screen">
      {shown.map((item) => (
        <Link
          key={item.to}
          to={item.to}
          activeOptions={{ exact: item.to === '/' }}
          activeProps={{ className: 'on', 'aria-current': 'page' }}
        >
          <Icon name={item.to === '/broker' ? 'dots' : item.icon} />
          {names[item.to] ?? item.label}
        </Link>
      ))}
    </nav>
  )
}
