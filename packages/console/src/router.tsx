// The routes of the console. Filters, selection and tabs are search parameters, so that a link shows another person the same. Screens
// beyond the first are loaded on demand.
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
import { FleetScreen } from './fleet/fleet-screen.tsx'
import { NotFound } from './shell/not-found.tsx'
import { RouteFailed } from './shell/route-failed.tsx'
import { Shell } from './shell/shell.tsx'

const text = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined)
/** Names of search parameters → their reader: texts only, absent if empty. */
const texts =
  <K extends string>(...names: K[]) =>
  (search: Record<string, unknown>): { [N in K]?: string } =>
    Object.fromEntries(names.flatMap((name) => (text(search[name]) === undefined ? [] : [[name, text(search[name])]]))) as {
      [N in K]?: string
    }

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound, errorComponent: RouteFailed })

const routes = [
  createRoute({ getParentRoute: () => root, path: '/', component: FleetScreen, validateSearch: texts('by', 'state') }),
  createRoute({
    getParentRoute: () => root,
    path: '/clusters/$id',
    component: lazyRouteComponent(() => import('./cluster/cluster-screen.tsx'), 'ClusterScreen'),
    validateSearch: texts('tab'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/stacks',
    component: lazyRouteComponent(() => import('./stacks/stacks-screen.tsx'), 'StacksScreen'),
    validateSearch: texts('search', 'health', 'label', 'drifted', 'held'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/stacks/$id',
    component: lazyRouteComponent(() => import('./stack/stack-screen.tsx'), 'StackScreen'),
    validateSearch: texts('tab', 'cluster', 'node', 'from', 'to'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/promotions',
    component: lazyRouteComponent(() => import('./promotions/promotions-screen.tsx'), 'PromotionsScreen'),
    validateSearch: texts('card', 'show'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/flows',
    component: lazyRouteComponent(() => import('./flows/flows-screen.tsx'), 'FlowsScreen'),
    validateSearch: texts('tab', 'search', 'state'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/flows/$id',
    component: lazyRouteComponent(() => import('./flows/flow-screen.tsx'), 'FlowScreen'),
    validateSearch: texts('tab'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/timeline',
    component: lazyRouteComponent(() => import('./timeline/timeline-screen.tsx'), 'TimelineScreen'),
    validateSearch: texts('range', 'to', 'mark', 'since', 'until'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/drift',
    component: lazyRouteComponent(() => import('./drift/drift-screen.tsx'), 'DriftScreen'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/diagnostics',
    component: lazyRouteComponent(() => import('./diagnostics/diagnostics-screen.tsx'), 'DiagnosticsScreen'),
    validateSearch: texts('id', 'stack', 'cluster'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/work-orders',
    component: lazyRouteComponent(() => import('./work-orders/work-orders-screen.tsx'), 'WorkOrdersScreen'),
    validateSearch: texts('tab', 'id'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/templates',
    component: lazyRouteComponent(() => import('./templates/templates-screen.tsx'), 'TemplatesScreen'),
    validateSearch: texts('id'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/webhooks',
    component: lazyRouteComponent(() => import('./webhooks/webhooks-screen.tsx'), 'WebhooksScreen'),
    validateSearch: texts('id', 'status', 'delivery'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/audit',
    component: lazyRouteComponent(() => import('./audit/audit-screen.tsx'), 'AuditScreen'),
    validateSearch: texts('action', 'actor', 'resource', 'id'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/access',
    component: lazyRouteComponent(() => import('./access/access-screen.tsx'), 'AccessScreen'),
    validateSearch: texts('tab', 'invite'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/broker',
    component: lazyRouteComponent(() => import('./broker/broker-screen.tsx'), 'BrokerScreen'),
    validateSearch: texts('tab', 'search'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/docs',
    component: lazyRouteComponent(() => import('./docs/docs-screen.tsx'), 'DocsScreen'),
    validateSearch: texts('op', 'search'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/login',
    component: lazyRouteComponent(() => import('./shell/login-link.tsx'), 'LoginLink'),
  }),
] as const

export const router = createRouter({ routeTree: root.addChildren([...routes]), defaultPreload: 'intent', scrollRestoration: true })

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
