// All sealed columns with the statements that sample, page and rewrite them. A test compares this list with the schema.

import type { Sql } from '@brokkr/postgres'
import * as renderedObjects from '../deployments/store/rendered-objects.ts'
import * as diagnostics from '../diagnostics/store.ts'
import * as idempotencyKeys from '../http/store/idempotency-keys.ts'
import * as sealedPlans from '../plans/store/sealed-plans.ts'
import * as k8sEvents from '../telemetry/store/k8s-events.ts'
import * as podLogs from '../telemetry/store/pod-logs.ts'
import * as stackTemplates from '../templates/store/stack-templates.ts'
import * as sealedWebhooks from '../webhooks/subscriptions/store/sealed-webhooks.ts'
import * as workOrderContents from '../work-orders/store/work-order-contents.ts'
import * as encryptionKeys from './store.ts'

export interface SealedColumn {
  readonly table: string
  readonly column: string
  /** At most one of the latest rows. */
  readonly sample: (sql: Sql, params: object) => Promise<encryptionKeys.SealedRow[]>
  readonly page: (sql: Sql, params: { after: string; since: string | null }) => Promise<encryptionKeys.SealedRow[]>
  readonly put: (sql: Sql, params: { id: string; was: Buffer; sealed: Buffer }) => Promise<number>
}

export const sealedColumns: readonly SealedColumn[] = [
  {
    table: 'deployment_objects',
    column: 'yaml_sealed',
    sample: encryptionKeys.sampleObject,
    page: encryptionKeys.objectsPage,
    put: encryptionKeys.putObject,
  },
  {
    table: 'stack_templates',
    column: 'template_sealed',
    sample: stackTemplates.sealedSample,
    page: stackTemplates.sealedPage,
    put: stackTemplates.putSealed,
  },
  {
    table: 'rendered_deployment_objects',
    column: 'parameters_sealed',
    sample: renderedObjects.sealedSample,
    page: renderedObjects.sealedPage,
    put: renderedObjects.putSealed,
  },
  {
    table: 'diagnostic_results',
    column: 'parts_sealed',
    sample: diagnostics.sealedSample,
    page: diagnostics.sealedPage,
    put: diagnostics.putSealed,
  },
  {
    table: 'idempotency_keys',
    column: 'body_sealed',
    sample: idempotencyKeys.sealedSample,
    page: idempotencyKeys.sealedPage,
    put: idempotencyKeys.putSealed,
  },
  {
    table: 'plans',
    column: 'content_sealed',
    sample: sealedPlans.contentSample,
    page: sealedPlans.contentPage,
    put: sealedPlans.putContent,
  },
  {
    table: 'plan_results',
    column: 'changes_sealed',
    sample: sealedPlans.changesSample,
    page: sealedPlans.changesPage,
    put: sealedPlans.putChanges,
  },
  {
    table: 'webhook_subscriptions',
    column: 'url_sealed',
    sample: sealedWebhooks.urlSample,
    page: sealedWebhooks.urlPage,
    put: sealedWebhooks.putUrl,
  },
  {
    table: 'webhook_subscriptions',
    column: 'auth_sealed',
    sample: sealedWebhooks.authSample,
    page: sealedWebhooks.authPage,
    put: sealedWebhooks.putAuth,
  },
  {
    table: 'webhook_subscriptions',
    column: 'secret_sealed',
    sample: sealedWebhooks.secretSample,
    page: sealedWebhooks.secretPage,
    put: sealedWebhooks.putSecret,
  },
  {
    table: 'webhook_subscriptions',
    column: 'old_secret_sealed',
    sample: sealedWebhooks.oldSecretSample,
    page: sealedWebhooks.oldSecretPage,
    put: sealedWebhooks.putOldSecret,
  },
  {
    table: 'agent_k8s_events',
    column: 'message_sealed',
    sample: k8sEvents.sealedSample,
    page: k8sEvents.sealedPage,
    put: k8sEvents.putSealed,
  },
  {
    table: 'agent_pod_logs',
    column: 'line_sealed',
    sample: podLogs.sealedSample,
    page: podLogs.sealedPage,
    put: podLogs.putSealed,
  },
  {
    table: 'work_order_contents',
    column: 'yaml_sealed',
    sample: workOrderContents.yamlSample,
    page: workOrderContents.yamlPage,
    put: workOrderContents.putYaml,
  },
  {
    table: 'work_order_contents',
    column: 'output_sealed',
    sample: workOrderContents.outputSample,
    page: workOrderContents.outputPage,
    put: workOrderContents.putSealedOutput,
  },
]
