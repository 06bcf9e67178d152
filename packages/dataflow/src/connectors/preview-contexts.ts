// Contexts for the preview: a connector that is opened with one of them stores nothing and reports nothing.
import type { ConnectorContext, SinkContext, SourceContext } from './connector.ts'

const none = async () => undefined

export const toSampleContext = (context: ConnectorContext): SourceContext => ({
  ...context,
  stored: undefined,
  isBounded: true,
  replicas: 1,
  assigned: none,
  revoked: none,
  stateChanged: () => undefined,
  condition: () => undefined,
  notice: () => undefined,
  dropped: () => undefined,
})

export const toCheckContext = (context: ConnectorContext): SinkContext => ({
  ...context,
  role: 'main',
  positionKey: '',
  source: { origin: '', compare: () => 0 },
  epoch: 0,
  soleWriter: undefined,
  hasStablePositions: true,
  storedState: undefined,
  saveState: undefined,
  conflictsIgnored: () => undefined,
})
