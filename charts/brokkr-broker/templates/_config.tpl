{{/* The configuration file: config and the settings that other values decide. */}}
{{- define "broker.config" -}}
{{- if not (or .Values.tls.existingSecret .Values.tls.terminatedElsewhere) -}}
{{- fail "the broker serves other machines by TLS alone: set tls.existingSecret to a Secret with tls.crt and tls.key, or tls.terminatedElsewhere=true if a proxy or Ingress in front terminates TLS" -}}
{{- end -}}
{{- $keys := (include "brokkr.secretKeys" . | fromJson).keys -}}
{{- range list "database.url" "broker.encryption_key" -}}
{{- if not (has . $keys) -}}
{{- fail (printf "%s is missing: name a Secret with the keys database.url and broker.encryption_key in existingSecret, or set both in secretValues; the chart brings no database" .) -}}
{{- end -}}
{{- end -}}
{{- $server := dict "port" 3000 "tls_terminated_elsewhere" .Values.tls.terminatedElsewhere -}}
{{- if .Values.tls.existingSecret -}}
{{- $server = merge $server (dict "tls_cert_file" "/etc/brokkr/tls/tls.crt" "tls_key_file" "/etc/brokkr/tls/tls.key") -}}
{{- end -}}
{{- $managed := dict "server" $server "metrics" (dict "port" 9090) -}}
{{- if .Values.preview.enabled -}}
{{- $managed = merge $managed (dict "broker" (dict "dataflow_preview_url" "http://127.0.0.1:9092")) -}}
{{- end -}}
{{- mergeOverwrite (deepCopy (.Values.config | default dict)) $managed | toJson -}}
{{- end }}
