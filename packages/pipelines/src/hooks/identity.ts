// Identity of a caller by bearer token: TokenReview says who it is, SubjectAccessReview whether it may.
import type { Kube } from '@brokkr/kube'
import { classifyAddress } from '@brokkr/runtime/http-client/address.ts'
import { z } from 'zod'

export interface Subject {
  /** `user:{name}` or `key:{namespace}/{secret}`. */
  readonly name: string
  /** Tells callers apart that have the same name one after the other, such as a service account that was created again. */
  readonly id: string
  readonly groups: readonly string[]
}

/** What the caller wants to do. Empty namespace: in all of them. */
export interface Access {
  readonly verb: 'approve' | 'promote' | 'get'
  readonly resource: 'promotions' | 'pipelines'
  readonly namespace: string
  readonly name: string
}

export interface Connection {
  readonly remoteAddress: string
  readonly isEncrypted: boolean
}

/** A token must not cross a network in clear text. */
export const mayCarryToken = ({ remoteAddress, isEncrypted }: Connection): boolean =>
  isEncrypted || classifyAddress(remoteAddress) === 'loopback'

const groups = { promotions: 'pipelines.brokkr.io', pipelines: 'pipelines.weave.works' } as const
const GROUPS_MAX = 100

const ReviewedUser = z.object({
  username: z.string().min(1).max(512),
  uid: z.string().optional(),
  groups: z.array(z.string().max(512)).optional(),
  extra: z.record(z.string(), z.array(z.string())).optional(),
})
type ReviewedUser = z.output<typeof ReviewedUser>
const TokenReviewAnswer = z.object({ status: z.object({ authenticated: z.boolean().optional(), user: z.unknown() }) })
const AccessReviewAnswer = z.object({ status: z.object({ allowed: z.boolean() }) })

export type TokenResult = { readonly outcome: 'unknown' | 'forbidden' } | { readonly outcome: 'allowed'; readonly subject: Subject }

export async function identifyByToken(kube: Kube, token: string, access: Access, signal: AbortSignal): Promise<TokenResult> {
  const user = await reviewToken(kube, token, signal)
  if (user === null) return { outcome: 'unknown' }
  if (!(await mayAccess(kube, user, access, signal))) return { outcome: 'forbidden' }
  const name = `user:${user.username}`
  const id = user.uid === undefined || user.uid === '' ? name : `${name}\n${user.uid}`
  return { outcome: 'allowed', subject: { name, id, groups: (user.groups ?? []).slice(0, GROUPS_MAX) } }
}

async function reviewToken(kube: Kube, token: string, signal: AbortSignal): Promise<ReviewedUser | null> {
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token } }
  const { text } = await kube.request('POST', '/apis/authentication.k8s.io/v1/tokenreviews', { body, signal })
  const { status } = TokenReviewAnswer.parse(JSON.parse(text))
  return status.authenticated === true ? ReviewedUser.parse(status.user) : null
}

async function mayAccess(kube: Kube, user: ReviewedUser, access: Access, signal: AbortSignal): Promise<boolean> {
  const { verb, resource, namespace, name } = access
  const body = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: {
      user: user.username,
      ...(user.uid === undefined ? {} : { uid: user.uid }),
      groups: user.groups ?? [],
      extra: user.extra ?? {},
      resourceAttributes: { verb, group: groups[resource], resource, namespace, name },
    },
  }
  const { text } = await kube.request('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', { body, signal })
  return AccessReviewAnswer.parse(JSON.parse(text)).status.allowed
}
