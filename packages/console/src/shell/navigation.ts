// The pages of the rail and the palette, in one list.
export interface NavigationItem {
  readonly to:
    | '/'
    | '/stacks'
    | '/promotions'
    | '/flows'
    | '/timeline'
    | '/drift'
    | '/diagnostics'
    | '/work-orders'
    | '/templates'
    | '/webhooks'
    | '/audit'
    | '/access'
    | '/broker'
    | '/docs'
  readonly label: string
  readonly icon: string
  /** Second key after `g`. */
  readonly key: string
  readonly group: 'daily' | 'Understand' | 'Operate' | 'Govern'
}

export const navigation: readonly NavigationItem[] = [
  { to: '/', label: 'Fleet', icon: 'fleet', key: 'f', group: 'daily' },
  { to: '/stacks', label: 'Stacks', icon: 'stacks', key: 's', group: 'daily' },
  { to: '/promotions', label: 'Promotions', icon: 'promo', key: 'p', group: 'daily' },
  { to: '/flows', label: 'Flows', icon: 'flow', key: 'l', group: 'daily' },
  { to: '/timeline', label: 'Timeline', icon: 'timeline', key: 't', group: 'Understand' },
  { to: '/drift', label: 'Drift', icon: 'drift', key: 'd', group: 'Understand' },
  { to: '/diagnostics', label: 'Diagnostics', icon: 'diag', key: 'i', group: 'Understand' },
  { to: '/work-orders', label: 'Work orders', icon: 'orders', key: 'w', group: 'Operate' },
  { to: '/templates', label: 'Templates', icon: 'templ', key: 'e', group: 'Operate' },
  { to: '/webhooks', label: 'Webhooks', icon: 'hook', key: 'h', group: 'Operate' },
  { to: '/audit', label: 'Audit', icon: 'audit', key: 'a', group: 'Govern' },
  { to: '/access', label: 'Access', icon: 'access', key: 'c', group: 'Govern' },
  { to: '/broker', label: 'Broker', icon: 'broker', key: 'b', group: 'Govern' },
  { to: '/docs', label: 'API', icon: 'book', key: 'o', group: 'Govern' },
]
