// CronJob of a DataFlowCron, a Job for a run by hand, and the Jobs of its triggers. Pure.
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import { type KubeObject, type OwnerReference, refOf } from '@brokkr/kube'
import { buildLabels, childMetadata, label, type Owner, runName, triggerName, workloadName } from '../names.ts'
import { type ProcessorEnvironment, processorPod } from './pod.ts'

export interface CronParts {
  readonly environment: ProcessorEnvironment
  readonly isSuspended: boolean
}

const processorLabels = (owner: Owner): Record<string, string> => ({
  ...buildLabels(owner),
  [label.triggerIndex]: 'processor',
  [label.generatedBy]: 'dataflow-cron',
})

export function cronJob(owner: Owner, flow: Flow, { environment, isSuspended }: CronParts): KubeObject {
  const { cron } = flow
  if (cron === undefined) throw new Error(`${owner.kind} ${owner.metadata.name} has no schedule`)
  const { startingDeadlineSeconds } = cron
  return {
    apiVersion: 'batch/v1',
    kind: 'CronJob',
    metadata: childMetadata(owner, workloadName(owner)),
    spec: {
      schedule: cron.schedule,
      timeZone: cron.timeZone,
      concurrencyPolicy: cron.concurrencyPolicy,
      suspend: isSuspended,
      successfulJobsHistoryLimit: cron.successfulJobsHistoryLimit,
      failedJobsHistoryLimit: cron.failedJobsHistoryLimit,
      ...(startingDeadlineSeconds === undefined ? {} : { startingDeadlineSeconds }),
      jobTemplate: { metadata: { labels: processorLabels(owner) }, spec: processorJob(owner, flow, environment) },
    },
  }
}

/** A run that fails is a failed run: the processor itself retries what may pass. */
const processorJob = (owner: Owner, flow: Flow, environment: ProcessorEnvironment) => ({
  backoffLimit: 0,
  template: {
    metadata: { labels: { ...environment.labels, ...processorLabels(owner) } },
    spec: processorPod(owner, flow, { environment, command: 'processor', args: ['--bounded'], restartPolicy: 'Never' }),
  },
})

/** Owned by the CronJob, so that it counts in its history and for its concurrency policy. */
export function manualJob(
  owner: Owner,
  flow: Flow,
  of: { environment: ProcessorEnvironment; cronJob: KubeObject; id: string },
): KubeObject {
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: runName(owner, of.id),
      namespace: owner.metadata.namespace ?? '',
      labels: processorLabels(owner),
      annotations: { 'cronjob.kubernetes.io/instantiate': 'manual' },
      ownerReferences: [toController(of.cronJob)],
    },
    spec: processorJob(owner, flow, of.environment),
  }
}

const triggerSeconds = 6 * 3600

/** Owned by the processor's Job, so that it is deleted with its run. */
export function triggerJob(owner: Owner, flow: Flow, of: { run: KubeObject; runId: string; index: number }): KubeObject {
  const trigger = flow.cron?.triggers[of.index]
  if (trigger === undefined) throw new Error(`there is no trigger ${of.index}`)
  const labels = {
    ...buildLabels(owner),
    [label.runId]: of.runId,
    [label.triggerIndex]: String(of.index),
    [label.generatedBy]: 'dataflow-cron',
  }
  const { image, command, args, env, resources, imagePullPolicy } = trigger
  const container = { image, command, args, env, resources, imagePullPolicy }
  const given = Object.fromEntries(Object.entries(container).filter(([, value]) => value !== undefined))
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: triggerName(owner, of.runId, of.index),
      namespace: owner.metadata.namespace ?? '',
      labels,
      ownerReferences: [toController(of.run)],
    },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: triggerSeconds,
      template: {
        metadata: { labels },
        spec: { restartPolicy: 'Never', automountServiceAccountToken: false, containers: [{ name: 'trigger', ...given }] },
      },
    },
  }
}

const toController = (object: KubeObject): OwnerReference => {
  const { apiVersion, kind, name } = refOf(object)
  return { apiVersion, kind, name, uid: object.metadata.uid ?? '', controller: true, blockOwnerDeletion: true }
}
