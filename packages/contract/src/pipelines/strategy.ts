// How a revision enters an environment: promotion and strategy of a Pipeline. Frozen into each Promotion.
import { z } from 'zod'
import { objectName, secretRef } from './fields.ts'

export const forgeTypes = ['github', 'gitlab', 'bitbucket-server', 'gitea', 'azure-devops'] as const
export type ForgeType = (typeof forgeTypes)[number]

export const PullRequestStrategy = z.object({
  type: z.enum(forgeTypes),
  /** HTTPS clone URL. The controller checks it; an empty one is storable, as in the public schema. */
  url: z.string().max(2048),
  baseBranch: z.string().max(255),
  /** Secret beside the Pipeline: `username` and `password` for Git, `token` for the API, `caFile` or `ca.crt`. */
  secretRef,
  /** Base address of the API, used unchanged. */
  apiUrl: z.string().max(2048).optional(),
  /** Globs relative to the repository's root (`*`, `**`, `?`); empty: every YAML file. */
  paths: z.array(z.string().min(1).max(1024)).max(100).optional(),
  labels: z.array(z.string().min(1).max(255)).max(50).optional(),
  author: z.object({ name: z.string().min(1).max(255), email: z.string().min(1).max(255) }).optional(),
  branchPrefix: z.string().max(128).optional(),
  keepBranch: z.boolean().optional(),
})
export type PullRequestStrategy = z.output<typeof PullRequestStrategy>

export const StackStrategy = z.object({
  mode: z.enum(['Copy', 'Marker']).optional(),
  /** Secret beside the Pipeline with key `pak`. */
  secretRef: z.object({ name: objectName }),
  /** Address of the broker; default: the flag `--broker-url`. */
  url: z.string().max(2048).optional(),
})
export type StackStrategy = z.output<typeof StackStrategy>

/** At most one of `pull-request`, `notification`, `stack`; none is storable and means NoStrategy. */
export const Strategy = z
  .object({
    'pull-request': PullRequestStrategy.optional(),
    notification: z.object({}).optional(),
    stack: StackStrategy.optional(),
    /** Secret with `hmac-key` and `hmac-key-previous`, for hooks. */
    secretRef: secretRef.optional(),
  })
  .meta({
    'x-kubernetes-validations': [
      {
        rule: '[has(self.pull__dash__request), has(self.notification), has(self.stack)].filter(x, x).size() <= 1',
        message: 'at most one of pull-request, notification and stack may be set',
      },
    ],
  })
export type Strategy = z.output<typeof Strategy>

export const PromotionPolicy = z.object({ manual: z.boolean().optional(), strategy: Strategy })
export type PromotionPolicy = z.output<typeof PromotionPolicy>

export const Approval = z.object({
  minApprovals: z.int().min(1).max(100).optional(),
  /** `user:`, `group:` or `key:` with a name; empty: every caller that may approve. */
  approvers: z
    .array(z.string().regex(/^(user|group|key):.{1,512}$/))
    .max(100)
    .optional(),
  deadline: z.string().max(64).optional(),
  /** Default true: the person who started the run does not count. */
  forbidInitiator: z.boolean().optional(),
})
export type Approval = z.output<typeof Approval>

export type StrategyKind = 'pull-request' | 'notification' | 'stack'

/** The strategy that a present object selects; null: none. */
export function strategyKindOf(strategy: Strategy): StrategyKind | null {
  if (strategy['pull-request'] !== undefined) return 'pull-request'
  if (strategy.notification !== undefined) return 'notification'
  return strategy.stack === undefined ? null : 'stack'
}
