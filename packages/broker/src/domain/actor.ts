// Who does a deed, as the audit log keeps it. Made from the credential at the edge, never from a body or path.
export interface Actor {
  readonly kind: 'admin' | 'agent' | 'generator' | 'system'
  readonly id: string | null
  readonly address: string | null
  readonly userAgent: string | null
  readonly requestId: string | null
}

export const systemActor: Actor = { kind: 'system', id: null, address: null, userAgent: null, requestId: null }
